"""What it takes to change a live queue into another one of the same name. Pure."""
