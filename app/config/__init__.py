"""What the operator decides: read from one YAML file and the environment, checked as a whole before anything starts."""
