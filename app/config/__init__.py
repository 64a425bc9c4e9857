"""The configuration: read from one YAML file and the environment, validated as a whole before anything starts."""
