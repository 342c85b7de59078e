"""From the texts of topology files to one checked Spec: `parsing.parse`, `format.Spec`."""
