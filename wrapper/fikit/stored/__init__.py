"""What is stored of jobs besides reports, in the shapes that others need. README.md says which."""
