"""The audit figures of Mao & Perrault (arXiv:2608.01425) on runs of ours, and what their reading leaves out."""
