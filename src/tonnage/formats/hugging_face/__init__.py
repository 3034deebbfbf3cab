"""Runs of the Hugging Face Trainer, whatever tool's file describes them.

accelerate, DeepSpeed, the Trainer's arguments, TRL, axolotl, LLaMA-Factory and ms-swift files
all end in one Trainer over one sharding engine. Their readers say what a file says
(`tonnage.formats.hugging_face.run.Run`), several files of one run are laid over one another,
and what follows for a plan is worked out once (`tonnage.formats.hugging_face.settle`).
"""
