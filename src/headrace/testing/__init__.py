"""What headrace proves itself with, shipped so that others can prove theirs: contracts and a simulator."""
