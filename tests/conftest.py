"""What all tests share."""

from hypothesis import settings

# The first example fills caches; on a busy machine that alone can take longer than hypothesis's 200 ms.
settings.register_profile("unhurried", deadline=None)
settings.load_profile("unhurried")
