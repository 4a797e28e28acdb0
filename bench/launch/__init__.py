"""What fikit costs a program: launches and calls through the shim, and the dispatcher."""
