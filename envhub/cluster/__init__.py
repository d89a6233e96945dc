"""A hub whose workers live on a Ray cluster: ``envhub up --ray``. Needs the extra ``ray``."""
