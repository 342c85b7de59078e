"""A topology in other tools' forms. Pure: each form is a value, nothing is written here."""
