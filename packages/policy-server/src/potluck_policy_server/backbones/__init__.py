"""What can be served: one module per backbone, found by name through the entry points `potluck.backbones`."""
