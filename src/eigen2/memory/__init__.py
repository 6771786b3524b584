"""What a process may use, what it uses, who holds it, and whether it leaks; knows no RL."""
