"""The controller: routes sessions to workers. It knows no concrete environment."""
