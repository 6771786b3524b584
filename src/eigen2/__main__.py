from eigen2.cli import main

main()
