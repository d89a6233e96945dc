"""The shop's own catalogue: products and goals made from a seed, words and templates of its own."""
