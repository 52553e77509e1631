"""The implementation of `restride.torch`: these modules import torch, and nothing else imports them."""
