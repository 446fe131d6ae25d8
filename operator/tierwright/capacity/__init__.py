"""How many: from samples over what was learned and a forecast to a decision; values in, value and reason out."""
