"""Reports and nodes with types: what fikit.library offers and the commands are built on."""
