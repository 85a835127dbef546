"""Expert templates: what parts of a program are for, and the plans that experts make of that."""
