"""trainer_adapter: plugs envhub into OpenRLHF's Ray and vLLM stack."""
