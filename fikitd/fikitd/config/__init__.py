"""What the site says: fikit.toml, and what it allows. README.md says what is where."""
