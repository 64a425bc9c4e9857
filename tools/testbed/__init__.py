"""What every measured system gets: the same servers, and the same changes.

servers      a separate stack (Kafka, Postgres), and an empty database for each measurement
machine      CPU and memory by process, and the load of other programs meanwhile
distance     a proxy between a system and its Postgres: proxy, a process of its own
tables       columns and values
workload     the table of workloads (`Kind`), and seeded changes of any shape
topic        filling a topic;  backlog: a workload as a topic, made once;  pacer: at a steady rate
"""
