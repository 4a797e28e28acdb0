"""NVIDIA's MPS for sharing jobs: how one speaks with it (control.py), what fikitd notes of it (notes.py), its servers
(servers.py), their clients (members.py), who joins (clients.py)."""
