"""The process: its sockets, its log, its end. README.md says what is where."""
