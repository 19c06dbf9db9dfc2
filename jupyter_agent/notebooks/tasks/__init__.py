"""Lists of tasks, run as agent cells in notebooks. listed: read and checked; literals: the inputs
as a cell; prepared: the notebook of a task, and what decides it; store: records and claims;
keeping: what came of one; batch: run, by whoever executes notebooks."""
