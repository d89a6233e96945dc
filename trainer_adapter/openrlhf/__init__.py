"""Everything that is bound to OpenRLHF, Ray, vLLM and DeepSpeed; nothing else imports them."""
