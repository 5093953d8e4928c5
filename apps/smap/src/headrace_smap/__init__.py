"""smap: social-media analytics by four services that never call each other."""
