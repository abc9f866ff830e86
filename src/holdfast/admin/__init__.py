"""What an operator sees and may do: status, health, metrics, changes, over JSON and HTTP."""
