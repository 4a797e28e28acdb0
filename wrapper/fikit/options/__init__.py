"""Values of options: what a user types, checked, and said in one sentence where it is wrong."""
