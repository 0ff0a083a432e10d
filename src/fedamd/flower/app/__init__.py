"""What runs inside a federation: the ServerApp, the ClientApp, and what they say to each other."""
