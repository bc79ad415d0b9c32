"""What a run leaves behind: sealed Parquet files that others read by column name."""
