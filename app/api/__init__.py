"""The REST API: one thin module per resource."""
