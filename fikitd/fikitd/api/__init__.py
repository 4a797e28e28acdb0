"""What fikitd tells of jobs: its documents, and the client that asks for them. README.md says what is where."""
