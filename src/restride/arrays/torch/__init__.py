"""What `restride.torch` is made of: these modules import torch, and nothing else imports them."""
