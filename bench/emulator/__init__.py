"""What the emulated GPU costs, and how it plays recordings."""
