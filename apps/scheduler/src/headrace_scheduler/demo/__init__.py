"""The demo: a till that is paid once, whatever happens to the workers that pay."""
