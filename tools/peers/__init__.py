"""What is measured: the table of systems (`systems.SYSTEMS`), and how each of them is started.

systems      the table: what each promises, how it is started, what it needs
child        a system as a process, and waiting for what it does
lane         Surelane: the real command, and the epochs of its log
flink, seatunnel    jobs in Java (java/), each in one process;  javajobs: compiles and starts them
debezium     the JDBC sink on a Connect worker
replication  Postgres' own logical replication
"""
