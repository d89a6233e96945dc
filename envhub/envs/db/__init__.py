"""The DB environment: SQL tasks over a private MySQL-dialect database per episode."""
