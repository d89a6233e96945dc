"""The WebShop environment: find and buy what an instruction asks for."""
