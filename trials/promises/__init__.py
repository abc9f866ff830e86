"""
The promise table: what each fault F1 to F41 may cost, and the runs that show it.

`catalogue` says what is injected and promised, `simulations` and the chaos runner inject it, tests
carry the marker `promise`, `evidence` keeps what came of them, `table` judges and writes the page.
"""
