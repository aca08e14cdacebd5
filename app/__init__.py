"""The service process and everything both processes share; never imports torch, vllm or ray."""
