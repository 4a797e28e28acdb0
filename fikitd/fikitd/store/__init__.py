"""Files: who reads and writes them, and what root says of jobs there. README.md says what is where."""
