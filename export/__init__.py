"""Offline side of Frontdesk: distils, quantises and writes what the edge serves."""
