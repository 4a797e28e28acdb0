"""What simulations are made of; `fikitd.simulator` is their public face."""
