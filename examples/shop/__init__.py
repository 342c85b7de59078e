"""A small shop: the four jobs people use queues for, on one topology."""
