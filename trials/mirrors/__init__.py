"""What is tried with mirrors: the rules of their sets, and the disk that fans out."""
