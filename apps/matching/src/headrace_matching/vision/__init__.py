"""Seeing: pictures and videos become features, features become matches. Nothing here knows of services or stores."""
