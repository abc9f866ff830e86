"""What Holdfast offers to tests: its own and those of its users."""
