"""Writes the candidate's text: C++ kernels and `model_new.py`. No decisions are taken here."""
