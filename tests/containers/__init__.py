"""Stand-ins for images of others, where there is no registry to have them from: see compose.yml."""
