"""The shop of the WebShop environment as a web site, for people and for agents that use a browser."""
