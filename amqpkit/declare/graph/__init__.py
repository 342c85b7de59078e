"""A topology as a picture: `picture.picture`, written by `mermaid`, `dot` and `page`."""
